package storage_test

import (
	"context"
	"fmt"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// A probe verifies the guarantees that logs need before a store holds conversations.
func ExampleProbe() {
	store := local.NewMemory() // or s3.New, or a Bucket of your own
	defer store.Close()
	report, err := storage.Probe(context.Background(), store, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	passed := 0
	for _, check := range report.Checks {
		if check.OK {
			passed++
		}
	}
	fmt.Println(passed == len(report.Checks))
	// Output: true
}
