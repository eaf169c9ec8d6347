package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"vmop/manager/web/fleet"
	"vmop/runner/inventory"
)

var _ fleet.Logs = (*Fleet)(nil)

// longestLog is how much of a log is shown, in bytes.
const longestLog = 64 << 10

// Log implements fleet.Logs.
func (f *Fleet) Log(ctx context.Context, name string) (string, error) {
	at, err := f.inventory.Log(ctx, name, inventory.LogQuery{})
	switch {
	case errors.Is(err, inventory.ErrUnknown):
		return "", asRefusal(err)
	case err != nil:
		return "", fleet.Refusal(err.Error())
	case at.Journal != nil:
		out, err := exec.CommandContext(ctx, at.Journal[0], append(at.Journal[1:], "--lines=1000")...).Output()
		if err != nil {
			return "", fleet.Refusal(fmt.Sprintf("%s: %v", strings.Join(at.Journal, " "), err))
		}
		return endOfLog(out), nil
	}
	text, err := readEnd(at.File, at.Begin)
	return endOfLog(text), err
}

// readEnd reads the end of a file, from an offset on.
func readEnd(name string, begin int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	begin = max(begin, info.Size()-longestLog-1)
	return io.ReadAll(io.NewSectionReader(file, begin, longestLog+1))
}

// endOfLog returns the last lines of a log that are not longer than longestLog together.
func endOfLog(text []byte) string {
	if len(text) <= longestLog {
		return string(text)
	}
	_, rest, _ := strings.Cut(string(text[len(text)-longestLog:]), "\n")
	return rest
}
