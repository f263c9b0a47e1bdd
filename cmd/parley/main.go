// Command parley runs durable agent conversations and is a client of them. See "parley help".
package main

import "github.com/parleyrun/parley"

func main() { parley.Main() }
