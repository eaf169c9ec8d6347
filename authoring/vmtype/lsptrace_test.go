package vmtype_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"vmop/test/wait"
)

// The messages that editors send are answered as the editors expect. A file in testdata/lsp contains the files of a
// folder and a session: lines that begin with "> " are messages of the editor, and lines that begin with "< " are parts
// of messages of the server, in this order among others. $DIR is the folder.
func TestSessionsOfEditors(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/lsp/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			playSession(t, path)
		})
	}
}

func playSession(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	require.NoError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, f := range archive.Files[1:] {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600))
	}
	ctx, cancel := wait.Context(t.Context()) // it ends a server that does not answer
	defer cancel()
	server := exec.CommandContext(ctx, "vmrunner", "vmtype", "lsp")
	server.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir())
	in, err := server.StdinPipe()
	require.NoError(t, err)
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	messages := bufio.NewReader(out)
	session := strings.ReplaceAll(string(archive.Files[0].Data), "$DIR", dir)
	for line := range strings.Lines(session) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "> "):
			require.True(t, json.Valid([]byte(line[2:])), line)
			_, err := fmt.Fprintf(in, "Content-Length: %d\r\n\r\n%s", len(line)-2, line[2:])
			require.NoError(t, err)
		case strings.HasPrefix(line, "< "):
			for got := ""; !strings.Contains(got, line[2:]); {
				got, err = readFrame(messages)
				require.NoError(t, err, "no message contains %s", line[2:])
				require.NotContains(t, got, `"code":-32603`, "an internal error")
			}
		}
	}
	_, err = io.Copy(io.Discard, messages)
	require.NoError(t, err)
	require.NoError(t, server.Wait())
}

// readFrame returns the next message of the server.
func readFrame(r *bufio.Reader) (string, error) {
	length := 0
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line == "\r\n" {
			break
		}
		if _, text, ok := strings.Cut(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
				return "", err
			}
		}
	}
	message := make([]byte, length)
	_, err := io.ReadFull(r, message)
	return string(message), err
}
