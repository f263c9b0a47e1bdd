// Command mode prints whether a test would use the whole volume or a sample.
package main

import (
	"fmt"

	"github.com/parleyrun/parley/internal/sample"
)

func main() { fmt.Println(sample.Of("whole", "sample")) }
