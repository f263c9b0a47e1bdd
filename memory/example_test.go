package memory_test

import (
	"errors"
	"fmt"

	"github.com/parleyrun/parley/memory"
)

// A program that keeps something for its clients takes it from the node's budget: new work
// is refused where there is no room, and work that was accepted goes on.
func ExampleBudget() {
	budget := memory.New(1 << 20)
	uploads := budget.Account("uploads", 256<<10)
	fmt.Println(uploads.Take(200 << 10))

	err := uploads.Take(100 << 10)
	fmt.Println(errors.Is(err, memory.ErrFull))

	uploads.Add(100 << 10) // of an upload that was accepted
	fmt.Println(uploads.Used())
	uploads.Add(-300 << 10) // they are gone
	fmt.Println(uploads.Used(), budget.Limit())
	// Output:
	// <nil>
	// true
	// 307200
	// 0 1048576
}
