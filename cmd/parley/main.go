// Command parley runs durable agent conversations and talks to them. See "parley help".
package main

import "github.com/parleyrun/parley"

func main() { parley.Main() }
