//go:build !man

package cli

import "github.com/spf13/cobra"

func addMan(*cobra.Command) {}
