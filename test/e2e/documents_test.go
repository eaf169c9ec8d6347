package e2e_test

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"vmop/test/cluster"
	"vmop/test/pages"
	"vmop/test/tier"
)

// TestDocuments types the commands of the pages about clusters, from top to bottom, as an administrator. Each must
// succeed. Package docs runs the commands of other pages. See docs/decisions/0157-commands-of-documents.md.
func TestDocuments(t *testing.T) {
	tier.Deep(t)
	l := newLab(t)
	l.storesByCSI(t)
	l.kubectl(t, "annotate", "storageclass", storage, "storageclass.kubernetes.io/is-default-class-")
	l.kubectl(t, "annotate", "storageclass", cluster.CSIClass, "storageclass.kubernetes.io/is-default-class=true")
	server := newImageServer(t, l)
	var walks struct {
		Functions string       `json:"functions"`
		Walks     []pages.Walk `json:"walks"`
	}
	text, err := os.ReadFile("testdata/walks.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &walks))
	for _, w := range walks.Walks {
		t.Run(strings.TrimSuffix(path.Base(w.Page), ".md"), func(t *testing.T) {
			u := newUser(t, l)
			require.NoError(t, os.CopyFS(filepath.Join(u.home, "examples"), os.DirFS("../../examples")))
			require.NoError(t, os.WriteFile(filepath.Join(u.home, "functions"), []byte("cd\n"+walks.Functions), 0o600))
			u.follow(w, strings.NewReplacer("https://cloud.example.org", "http://"+server.at))
			u.types("kubectl delete vm --all --cascade=foreground --timeout 5m", "")
			u.until("kubectl delete vmop,vmbda,vmsnapshot,vdsnapshot,vmpool,vd,vi,cvi --all --timeout 1m", "")
			u.types("kubectl delete pvc,service -l app.kubernetes.io/name=vm-runner", "")
		})
	}
}

// follow types the commands of a page. It continues after errors, so that a single run reports all errors.
func (u *user) follow(w pages.Walk, here *strings.Replacer) {
	u.t.Helper()
	source, err := os.ReadFile(filepath.Join("../../docs", w.Page))
	require.NoError(u.t, err)
	enter := func(command string) string {
		script := w.Script(command)
		var out, said bytes.Buffer
		cmd := u.command(". ~/functions\n" + here.Replace(script))
		cmd.Stdout, cmd.Stderr = &out, &said
		cmd.WaitDelay = time.Second
		began := time.Now()
		require.NoError(u.t, cmd.Start())
		late := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		late.Stop()
		if took := time.Since(began); took > 8*time.Second {
			u.t.Logf("%.0f s: %s", took.Seconds(), command)
		}
		if err != nil {
			u.t.Errorf("%s: %s\n%s\n%v\n%s%s", w.Page, command, script, err, &out, &said)
		}
		return out.String()
	}
	require.NoError(u.t, os.WriteFile(filepath.Join(u.home, "page.md"), source, 0o600))
	u.types(". ~/functions\n"+here.Replace(w.Before), "")
	for _, b := range pages.Read("docs/"+w.Page, source).Blocks {
		if b.Language == pages.Shell {
			statements, err := b.Statements()
			require.NoError(u.t, err)
			for _, s := range statements {
				enter(s)
			}
		} else if b.Language == "" {
			for _, call := range b.Calls() {
				columns, _, table := strings.Cut(enter(call.Command()), "\n")
				if want, _, _ := strings.Cut(call.Answer, "\n"); table && strings.HasPrefix(want, "NAME") {
					assert.Equal(u.t, strings.Fields(want), strings.Fields(columns), "%s: %s", w.Page, call.Typed)
				}
			}
		}
	}
	assert.Empty(u.t, w.Faults())
}
