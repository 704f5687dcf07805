// Sweep removes what interrupted tests left on this machine: test hosts whose
// process is dead. `make test` runs it last.
package main

import (
	"fmt"
	"os"

	"hclbench/testhost"
)

func main() {
	if err := testhost.Sweep(); err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(1)
	}
}
