package inventory

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// A LogQuery selects a part of a VM's log.
type LogQuery struct {
	// All includes earlier starts.
	All bool
	// Process selects the output of one process: "qemu", or the name of a helper. "" selects everything.
	Process string
	// Console selects the recorded console of the guest instead of the log.
	Console bool
}

// A Log is the location of a log.
type Log struct {
	// Journal is the command that shows the log of a service. If it is nil, the log is in File, from offset Begin
	// on.
	Journal []string
	File    string
	Begin   int64
	// Process is the process of the query.
	Process string
}

// beginOfRun is part of the first line that a runner logs.
const beginOfRun = " initializing state=Initializing "

// Log returns the location of a VM's log. The error explains why the log doesn't exist.
func (inv *Inventory) Log(ctx context.Context, name string, q LogQuery) (*Log, error) {
	vm, err := inv.Find(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case vm.Place == nil:
		return nil, fmt.Errorf("cannot show the log of %s: its configuration is outside the folders for VMs; see the output "+
			"of the program that runs it", name)
	case q.Console:
		return vm.consoleLog()
	case vm.Service.Unit != "":
		if q.Process != "" {
			return nil, fmt.Errorf("cannot show the output of %s alone: systemd has the log; run: %s", q.Process,
				vm.journalCommand())
		}
		return &Log{Journal: append(strings.Fields(vm.journalCommand()), "--no-pager", "--output=cat")}, nil
	}
	l := &Log{File: vm.LogFile(), Process: q.Process}
	if _, err := os.Stat(l.File); err != nil {
		return nil, fmt.Errorf("cannot show the log of %s: it was never started in the background: %w", name, err)
	}
	if !q.All {
		l.Begin, err = lastRun(l.File)
	}
	return l, err
}

// consoleLog returns the recorded console.
func (vm *VM) consoleLog() (*Log, error) {
	file := ""
	if vm.Config != nil {
		if c := vm.Spec().SerialConsole; c != nil {
			file = c.Log
		}
	}
	if file == "" {
		return nil, fmt.Errorf("cannot show the console of %s: it is not recorded; set vm.serialConsole.log to a file, or follow "+
			"the console by: vmrunner console %[1]s", vm.Name)
	}
	return &Log{File: vmspec.Within(filepath.Dir(vm.File), file)}, nil
}

// A LogFilter writes the lines of a runner's log that are the output of one process, in their original form.
// Without a process it writes all lines.
type LogFilter struct {
	// Process is as in LogQuery.
	Process string
	// Out receives the lines.
	Out io.Writer

	line []byte // the beginning of a line
}

// Write accepts a part of the log.
func (f *LogFilter) Write(data []byte) (int, error) {
	if f.Process == "" {
		return f.Out.Write(data)
	}
	n := len(data)
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			f.line = append(f.line, data...)
			return n, nil
		}
		f.line = append(f.line, data[:end]...)
		data = data[end+1:]
		if err := f.End(); err != nil {
			return n, err
		}
	}
}

// End writes the last line, if it was incomplete.
func (f *LogFilter) End() error {
	text, is := outputOf(f.Process, string(f.line))
	f.line = f.line[:0]
	if !is {
		return nil
	}
	_, err := io.WriteString(f.Out, text+"\n")
	return err
}

// outputOf returns the output line of a process that a log line contains.
func outputOf(process, line string) (text string, is bool) {
	head, text, is := strings.Cut(line, " line=")
	if !is || !strings.Contains(head, " output ") || !strings.Contains(head+" ", " process="+process+" ") {
		return "", false
	}
	if whole, err := strconv.Unquote(text); err == nil {
		text = whole
	}
	return text, true
}

// lastRun returns the offset of the last runner's first line in a log.
func lastRun(file string) (begin int64, err error) {
	log, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	in := bufio.NewReader(log)
	for at := int64(0); ; {
		line, err := in.ReadSlice('\n')
		if bytes.Contains(line, []byte(beginOfRun)) {
			begin = at
		}
		at += int64(len(line))
		if errors.Is(err, io.EOF) {
			return begin, nil
		} else if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, err
		}
	}
}
