// Command says prints how much of a volume it would run.
package main

import (
	"fmt"

	"github.com/parleyrun/parley/internal/sample"
)

func main() { fmt.Println(sample.Of("whole", "sample")) }
