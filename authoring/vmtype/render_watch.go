package vmtype

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vmop/authoring/sample"
	"vmop/authoring/textdiff"
	"vmop/cli"
	"vmop/filewatch"
	"vmop/yamlfile"
)

// again renders whenever a file changes that the plan depends on, and prints the difference,
// until the context ends.
func (r *rendering) again(ctx context.Context) error {
	w, err := filewatch.New(ctx, slog.New(slog.DiscardHandler), r.trial.folders()...)
	if err != nil {
		return err
	}
	p := &page{Paint: cli.PaintFor(r.out), w: r.out}
	out := r.out
	before := ""
	for first := true; ; first = false {
		var text bytes.Buffer
		r.out = &text
		err := r.run(ctx)
		if r.out = out; ctx.Err() != nil {
			return nil
		}
		if first && text.Len() > 0 {
			p.line("%s", strings.TrimSuffix(text.String(), "\n"))
		} else if !first {
			p.changes(before, text.String())
		}
		if err != nil {
			p.line("%s", p.Red(explained(err)))
		}
		if text.Len() > 0 {
			before = text.String()
		}
		for {
			changed, err := w.Wait(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if slices.ContainsFunc(changed, r.trial.comesFrom) {
				p.line("\n%s", p.Faint(time.Now().Format(time.TimeOnly)+" changed: "+
					cli.Printable(strings.Join(relevant(changed), ", "))))
				break
			}
		}
		if p.err != nil {
			return p.err
		}
	}
}

// explained formats an error with excerpts of the files that it is about.
func explained(err error) string {
	var faults yamlfile.Faults
	if errors.As(err, &faults) {
		return strings.TrimSuffix(faults.Excerpts(), "\n")
	}
	return err.Error()
}

// changes prints the difference to the previous plan, if there is a plan.
func (p *page) changes(before, now string) {
	switch {
	case now == "":
		return
	case now == before:
		p.line("the plan is the same")
		return
	}
	for _, h := range textdiff.Hunks(before, now) {
		for _, l := range h.Lines {
			text := fmt.Sprintf("%c %s", l.Sign, cli.Printable(l.Text))
			switch l.Sign {
			case '-':
				text = p.Red(text)
			case '+':
				text = p.Green(text)
			}
			p.line("%s", text)
		}
	}
}

// folders are those with files that a plan depends on.
func (t *trial) folders() []string {
	folder := filepath.Dir(t.file)
	list := []string{folder}
	if filepath.Base(folder) == sample.Folder {
		list = append(list, filepath.Dir(folder))
	}
	if _, err := os.Stat(*t.folder); err == nil {
		list = append(list, *t.folder)
	}
	if filepath.Ext(t.host) == ".json" {
		list = append(list, filepath.Dir(t.host))
	}
	return list
}

// comesFrom reports whether a file may have to do with the plan: it is the VM, the computer
// or a module.
func (t *trial) comesFrom(path string) bool {
	path = filepath.Clean(path)
	isTest := strings.HasSuffix(path, "_test.star")
	return path == filepath.Clean(t.file) || t.host != "" && path == filepath.Clean(t.host) ||
		filepath.Ext(path) == ".star" && !isTest
}
