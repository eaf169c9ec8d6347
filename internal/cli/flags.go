package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The functions below add flags that several verbs share, so that their help is the same everywhere. Help of a flag
// is a phrase in lower case without a full stop, like cobra's own. Its placeholder is in capitals, and a default that
// pflag doesn't print comes last, in parentheses.

// WaitFlags adds --wait and --timeout to a verb. until is what it waits for. A limit of 0 means no limit.
func WaitFlags(cmd *cobra.Command, wait *bool, limit *time.Duration, until string) {
	cmd.Flags().BoolVar(wait, "wait", false, "wait until "+until)
	cmd.Flags().DurationVar(limit, "timeout", 0, "stop waiting after this `DURATION`, such as 5m (default no limit)")
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if *limit != 0 && !*wait {
			return UsageError{Err: errors.New("--timeout needs --wait")}
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

// ForceFlag adds --force to a verb that otherwise asks the guest to shut down.
func ForceFlag(cmd *cobra.Command, force *bool) {
	cmd.Flags().BoolVar(force, "force", false, "end the VM without asking the guest to shut down")
}

// ChecksumFlag adds --checksum, in the syntax of diskimage.ParseChecksum. of is the data with the checksum.
func ChecksumFlag(p *pflag.FlagSet, checksum *string, of string) {
	p.StringVar(checksum, "checksum", "", "`CHECKSUM` of "+of+": sha256:HEX, sha512:HEX or md5:HEX")
}
