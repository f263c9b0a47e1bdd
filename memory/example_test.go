package memory_test

import (
	"errors"
	"fmt"

	"github.com/parleyrun/parley/memory"
)

// A program that holds data for its clients reserves it in the node's budget: new work is rejected
// when the budget is full, and accepted work continues.
func ExampleBudget() {
	budget := memory.New(1 << 20)
	uploads := budget.Account("uploads", 256<<10)
	fmt.Println(uploads.Take(200 << 10))

	err := uploads.Take(100 << 10)
	fmt.Println(errors.Is(err, memory.ErrFull))

	uploads.Add(100 << 10) // of an accepted upload
	fmt.Println(uploads.Used())
	uploads.Add(-300 << 10) // uploads have ended
	fmt.Println(uploads.Used(), budget.Limit())
	// Output:
	// <nil>
	// true
	// 307200
	// 0 1048576
}
