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
	"vmop/internal/cli"
	"vmop/internal/filewatch"
	"vmop/internal/yamlfile"
)

// renderOnChange renders the plan each time one of its files changes, and prints the difference, until the context
// ends.
func (r *rendering) renderOnChange(ctx context.Context) error {
	w, err := filewatch.New(ctx, slog.New(slog.DiscardHandler), r.trial.watchedFolders()...)
	if err != nil {
		return err
	}
	p := &page{Paint: cli.PaintFor(r.out), w: r.out}
	out := r.out
	before := ""
	for first := true; ; first = false {
		var text bytes.Buffer
		r.out = &text
		err := r.renderPlan(ctx)
		if r.out = out; ctx.Err() != nil {
			return nil
		}
		if first && text.Len() > 0 {
			p.printLine("%s", strings.TrimSuffix(text.String(), "\n"))
		} else if !first {
			p.printChanges(before, text.String())
		}
		if err != nil {
			p.printLine("%s", p.Red(explainError(err)))
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
				p.printLine("\n%s", p.Faint(time.Now().Format(time.TimeOnly)+" changed: "+
					cli.Printable(strings.Join(relevantFiles(changed), ", "))))
				break
			}
		}
		if p.err != nil {
			return p.err
		}
	}
}

// explainError formats an error with excerpts from the files.
func explainError(err error) string {
	var faults yamlfile.Faults
	if errors.As(err, &faults) {
		return strings.TrimSuffix(faults.Excerpts(), "\n")
	}
	return err.Error()
}

// printChanges prints the difference to the previous plan, if there is a plan.
func (p *page) printChanges(before, now string) {
	switch {
	case now == "":
		return
	case now == before:
		p.printLine("the plan is the same")
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
			p.printLine("%s", text)
		}
	}
}

// watchedFolders returns the folders with files that affect the plan.
func (t *trial) watchedFolders() []string {
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

// comesFrom reports whether a file may affect the plan: the VM, the computer or a module.
func (t *trial) comesFrom(path string) bool {
	path = filepath.Clean(path)
	isTest := strings.HasSuffix(path, "_test.star")
	return path == filepath.Clean(t.file) || t.host != "" && path == filepath.Clean(t.host) ||
		filepath.Ext(path) == ".star" && !isTest
}
