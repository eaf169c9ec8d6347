package main

import (
	"fmt"

	"vmop/internal/cli"
	"vmop/runner/prepare/images"
)

// imageProgress returns a function that shows the progress of an image or of a disk created from it.
func imageProgress(p *cli.Progress) func(images.Progress) {
	return func(now images.Progress) { p.Show(string(now.Step), now.String()) }
}

// formatBytes formats a number of bytes for a table: "2.0 GiB", or "-" for 0.
func formatBytes(n int64) string {
	const unit = 1024
	switch {
	case n == 0:
		return "-"
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/(unit*unit))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(unit*unit*unit))
}
