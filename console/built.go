//go:build !noconsole

package console

import (
	"embed"
	"io/fs"
)

//go:embed dist/index.html dist/a
var dist embed.FS

// built is the output of "npm run build".
var built = func() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // The name is valid.
	}
	return sub
}()
