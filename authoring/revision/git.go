package revision

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"vmop/vmtypes"
)

// maxTree is the maximum total size of the files from a git revision, in bytes.
const maxTree = 64 << 20

// openGit copies the files of a git revision to a temporary folder.
func (r *Revision) openGit(ctx context.Context, name string) error {
	tree := name
	if rev, file, ok := strings.Cut(name, ":"); !ok {
		tree = name + ":./"
	} else if path.Ext(file) == ".star" {
		r.Single = strings.TrimSuffix(path.Base(file), ".star")
		folder, _ := path.Split(file)
		tree = rev + ":" + folder
	}
	id, err := runGit(ctx, nil, "rev-parse", "--verify", "--end-of-options", tree)
	if err != nil {
		return fmt.Errorf("%q is not a file, a folder or a stock type (%s), and as a git revision: %w", name,
			stockNames(), err)
	}
	list, err := runGit(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", strings.TrimSpace(string(id)))
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", name, err)
	}
	dir, err := os.MkdirTemp("", "vmtypes")
	if err != nil {
		return fmt.Errorf("make room for the files of %s: %w", name, err)
	}
	r.close = append(r.close, func() error { return os.RemoveAll(dir) })
	if err := extractFiles(ctx, string(list), dir); err != nil {
		return fmt.Errorf("read the files of %s: %w", name, err)
	}
	return r.openFolder(dir)
}

func stockNames() string {
	library, err := vmtypes.Open("")
	if err != nil {
		return ""
	}
	return strings.Join(library.Names(), ", ")
}

// extractFiles writes the files in the output of ls-tree that may be types or samples into dir.
func extractFiles(ctx context.Context, list, dir string) error {
	var names []string
	var wanted bytes.Buffer
	for entry := range strings.SplitSeq(list, "\x00") {
		head, name, _ := strings.Cut(entry, "\t")
		words := strings.Fields(head) // mode, kind, id
		if len(words) != 3 || words[1] != "blob" || !strings.HasPrefix(words[0], "100") || !isWanted(name) {
			continue
		}
		names = append(names, name)
		wanted.WriteString(words[2] + "\n")
	}
	blobs, err := runGit(ctx, &wanted, "cat-file", "--batch")
	if err != nil {
		return err
	}
	in := bufio.NewReader(bytes.NewReader(blobs))
	for _, name := range names {
		text, err := readBlob(in)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// isWanted reports whether a file of a git tree may be a type, a library module or a sample. git itself refuses names
// that lead out of a folder.
func isWanted(name string) bool {
	folder := path.Dir(name)
	switch path.Ext(name) {
	case ".star", ".txtar", ".yaml":
		return filepath.IsLocal(name) && (folder == "." || folder == "lib" || folder == "testdata")
	}
	return false
}

// readBlob reads one answer of cat-file --batch: "ID blob SIZE", the bytes, and a newline.
func readBlob(in *bufio.Reader) ([]byte, error) {
	head, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	words := strings.Fields(head)
	if len(words) != 3 || words[1] != "blob" {
		return nil, fmt.Errorf("git cat-file prints %q", strings.TrimSpace(head))
	}
	size, err := strconv.Atoi(words[2])
	if err != nil || size > maxTree {
		return nil, fmt.Errorf("git cat-file prints %q", strings.TrimSpace(head))
	}
	text := make([]byte, size+1)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, err
	}
	return text[:size], nil
}

// runGit runs git and returns its output. The error contains git's message. git must not fetch anything, because the
// settings of an untrusted repository can name programs for fetching.
func runGit(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, errors.New("git is not installed")
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = stdin
	cmd.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{into: &out, left: maxTree}, &complaint
	if err := cmd.Run(); err != nil {
		switch text := strings.TrimPrefix(strings.TrimSpace(complaint.String()), "fatal: "); {
		case text == "":
			return nil, fmt.Errorf("git %s: %w", args[0], err)
		case text == "Needed a single revision":
			return nil, errors.New("there is no such revision, or no such path in it")
		default:
			return nil, fmt.Errorf("git reports: %s", text)
		}
	}
	return out.Bytes(), nil
}

// limited is a writer that fails when a size is exceeded.
type limited struct {
	into io.Writer
	left int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("there are more than %d MiB", maxTree>>20)
	}
	return l.into.Write(p)
}
