package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// A folder is a bucket for one process: created objects survive a restart and cannot be created again.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "conversations-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	for range 2 {
		store, err := local.Open(folder, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		err = store.Create(ctx, "notes/1", storage.Bytes([]byte("once")))
		fmt.Println(err == nil, errors.Is(err, storage.ErrExists))
		if err := store.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// true false
	// false true
}
