//go:build noconsole

package console

import "io/fs"

// built is nil: the program has no page.
var built fs.FS
