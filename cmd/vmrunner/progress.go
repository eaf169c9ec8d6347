package main

import (
	"fmt"

	"vmop/cli"
	"vmop/runner/images"
)

// showing returns what shows how far an image or a disk of one has come.
func showing(p *cli.Progress) func(images.Progress) {
	return func(now images.Progress) { p.Show(string(now.Step), now.String()) }
}

// amount returns a number of bytes for a table: "2.0 GiB", "-" for none.
func amount(n int64) string {
	const unit = 1024
	switch {
	case n == 0:
		return "-"
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/(unit*unit))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(unit*unit*unit))
}
