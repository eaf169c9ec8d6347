package vmtype

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/authoring/adopt"
	"vmop/authoring/sample"
	"vmop/internal/atomicfile"
	"vmop/internal/cli"
)

// A changedFile is a file that a proposal changes or creates.
type changedFile struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"` // "" for a new file
	After  string `json:"after"`
}

// filesOf returns the files of a proposal: the module, if it changes, and the sample with its plan.
func (a *adoption) filesOf(p *adopt.Proposal) []changedFile {
	var files []changedFile
	if p.After != p.Before && p.After != "" {
		files = append(files, changedFile{filepath.Join(a.dir, p.Type+".star"), p.Before, p.After})
	}
	if a.sample != nil && a.sample.Keeps() {
		before, err := os.ReadFile(a.sample.Path)
		if err == nil {
			after := sample.WithSection(before, p.Section, p.Plan.Text())
			files = append(files, changedFile{a.sample.Path, string(before), string(after)})
			return files
		}
	}
	archive := &txtar.Archive{
		Comment: []byte(fmt.Sprintf("The VM of the command line in %s.\n\n", filepath.Base(a.argv))),
		Files:   []txtar.File{{Name: "type", Data: []byte(p.Type + "\n")}, {Name: "vm.yaml", Data: []byte(p.Section)}},
	}
	if host := hostText(p.Host); host != "" {
		archive.Files = append(archive.Files, txtar.File{Name: "host.json", Data: []byte(host)})
	}
	archive.Files = append(archive.Files, txtar.File{Name: "plan.txt", Data: []byte(p.Plan.Text())})
	return append(files, changedFile{a.freeSample(p.Type), "", string(txtar.Format(archive))})
}

// freeSample returns the path of a sample that doesn't exist.
func (a *adoption) freeSample(name string) string {
	if a.newName != "" {
		name = a.newName
	}
	path := filepath.Join(a.dir, name+sample.Suffix)
	for n := 2; ; n++ {
		if _, err := os.Lstat(path); err != nil {
			return path
		}
		path = filepath.Join(a.dir, fmt.Sprintf("%s-%d%s", name, n, sample.Suffix))
	}
}

// hostText returns the facts that differ from the default as JSON, or "".
func hostText(h sample.HostFacts) string {
	facts := map[string]any{}
	if h.KVM {
		facts["kvm"] = true
	}
	if h.Arch != "" {
		facts["arch"] = h.Arch
	}
	if h.Files != nil {
		facts["files"] = h.Files
	}
	if len(facts) == 0 {
		return ""
	}
	text, err := json.Marshal(facts)
	if err != nil {
		return ""
	}
	return string(text) + "\n"
}

// proposalValue returns a proposal for programs.
func proposalValue(p *adopt.Proposal, files []changedFile, broken []string) any {
	type field struct {
		Path  string `json:"path"`
		Value string `json:"value"`
		Line  int    `json:"line,omitempty"`
	}
	type rest struct {
		Line   int    `json:"line,omitempty"`
		Option string `json:"option"`
		Reason string `json:"reason"`
	}
	fields, left := []field{}, []rest{}
	for _, f := range p.Fields {
		fields = append(fields, field(f))
	}
	for _, r := range p.Rest {
		left = append(left, rest(r))
	}
	return map[string]any{
		"type": p.Type, "base": p.Base, "files": files, "fields": fields, "rest": left, "brokenSamples": nonNil(broken),
	}
}

// printProposal prints the differences of the files, the fields and the rest.
func (a *adoption) printProposal(p *adopt.Proposal, files []changedFile, broken []string) error {
	paint := cli.PaintFor(a.out)
	for _, file := range files {
		f := formatting{Paint: paint, out: a.out, diff: true}
		if err := f.reportChange(file.Path, file.Before, file.After); err != nil {
			return err
		}
	}
	var b strings.Builder
	switch {
	case p.Base != "" && p.After == "":
		fmt.Fprintf(&b, "The stock type %s produces this command line without changes.\n", p.Type)
	case p.Base != "":
		fmt.Fprintf(&b, "%s builds on %s, which needs the fewest changes.\n", p.Type, p.Base)
	case p.After == p.Before:
		fmt.Fprintf(&b, "The type %s needs no change.\n", p.Type)
	}
	if len(p.Fields) > 0 {
		b.WriteString("\n" + paint.Bold("Fields of the configuration, not of the type:") + "\n")
		for _, f := range p.Fields {
			fmt.Fprintf(&b, "  %s: %s%s\n", cli.Printable(f.Path), cli.Printable(f.Value),
				paint.Faint(lineText("  # line", f.Line)))
		}
	}
	if len(p.Rest) > 0 {
		b.WriteString("\n" + paint.Bold("Not in the proposal:") + "\n")
		for _, r := range p.Rest {
			fmt.Fprintf(&b, "  %s%s\n", paint.Yellow(cli.Printable(r.Option)), paint.Faint(lineText("  # line",
				r.Line)))
			fmt.Fprintf(&b, "      %s\n", cli.Printable(r.Reason))
		}
	}
	for _, one := range broken {
		fmt.Fprintf(&b, "\n%s\n", paint.Red("With this change, the sample "+cli.Printable(one)))
	}
	if !a.write {
		b.WriteString("\nNothing was written; add --write to write the files.\n")
	}
	_, err := io.WriteString(a.out, b.String())
	return err
}

func lineText(words string, line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d", words, line)
}

// writeProposal writes all files or none of them, and evaluates the result.
func (a *adoption) writeProposal(ctx context.Context, p *adopt.Proposal, files []changedFile) error {
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return err
	}
	var done []changedFile
	undo := func(err error) error {
		for _, file := range done {
			if file.Before == "" {
				err = errors.Join(err, os.Remove(file.Path))
			} else {
				err = errors.Join(err, atomicfile.Rewrite(file.Path, []byte(file.Before)))
			}
		}
		return fmt.Errorf("cannot write the proposal; the files are as before: %w", err)
	}
	for _, file := range files {
		var err error
		if file.Before == "" {
			err = writeFile(file.Path, file.After)
		} else {
			err = rewriteUnchanged(file)
		}
		if err != nil {
			return undo(err)
		}
		done = append(done, file)
	}
	if err := a.verify(ctx, p, files); err != nil {
		return undo(err)
	}
	words := []string{"Wrote"}
	for _, file := range files {
		words = append(words, cli.Printable(file.Path))
	}
	return cli.WriteLine(a.out, strings.Join(words, " ")+".\n\nNext step:\n  vmrunner vmtype test "+a.dir)
}

// rewriteUnchanged replaces a file unless someone has changed it in the meantime.
func rewriteUnchanged(file changedFile) error {
	now, err := os.ReadFile(file.Path)
	if err != nil {
		return err
	}
	if string(now) != file.Before {
		return fmt.Errorf("%s has changed in the meantime; run the command again", file.Path)
	}
	return atomicfile.Rewrite(file.Path, []byte(file.After))
}

// verify evaluates the written files again.
func (a *adoption) verify(ctx context.Context, p *adopt.Proposal, files []changedFile) error {
	s, err := sample.Read(files[len(files)-1].Path)
	if err != nil {
		return err
	}
	launches := &sharedLaunches{}
	defer launches.close()
	in, err := launches.folder(a.dir)
	if err != nil {
		return err
	}
	made, err := in.Launch(ctx, s.Type, s.VM, s.Host.Host())
	if err != nil {
		return err
	}
	if made.Text() != p.Plan.Text() {
		return errors.New("the written type has another plan than the proposal")
	}
	return nil
}
