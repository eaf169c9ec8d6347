package docs_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"vmop/test/guest"
)

// walk describes how the test runs the commands of a page. testdata/walks.yaml contains the walks and explains the
// fields.
type walk struct {
	Elsewhere string            `json:"elsewhere"`
	Deep      bool              `json:"deep"`
	Before    string            `json:"before"`
	Replace   map[string]string `json:"replace"`
	Root      bool              `json:"root"`
	Except    []exception       `json:"except"`
	functions string
}

// boots reports whether one of the commands boots Linux.
func (w *walk) boots() bool {
	return w.Before == "tiny" || slices.ContainsFunc(w.Except, func(e exception) bool {
		return e.Until == "READY" || strings.Contains(e.Instead, "READY")
	})
}

// exception is a command of a page that does not run unchanged.
type exception struct {
	Command string `json:"command"`
	Reason  string `json:"reason"`
	Until   string `json:"until"`
	Instead string `json:"instead"`
}

// walks returns the walks by page: for all pages with blocks of commands, and for other pages with special needs.
func walks(t *testing.T) map[string]walk {
	t.Helper()
	var all struct {
		Functions string          `json:"functions"`
		Pages     map[string]walk `json:"pages"`
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, "testdata/walks.yaml")), &all))
	for page, w := range all.Pages {
		w.functions = all.Functions
		all.Pages[page] = w
		for _, e := range w.Except {
			require.True(t, (e.Reason == "") != (e.Until == ""), "%s: %s: why?", page, e.Command)
		}
	}
	return all.Pages
}

// testdata/walks.yaml names another package for exactly the pages that this package types.
func TestWalksInACluster(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"test/e2e", "deploy/chart"} {
		var there struct {
			Walks []struct{ Page string }
		}
		require.NoError(t, yaml.Unmarshal([]byte(read(t, "../"+other+"/testdata/walks.yaml")), &there))
		var want, got []string
		for page, w := range walks(t) {
			if w.Elsewhere == other {
				want = append(want, page)
			}
		}
		for _, w := range there.Walks {
			got = append(got, w.Page)
		}
		require.NotEmpty(t, got)
		require.ElementsMatch(t, want, got, other)
	}
}

// publish starts a server with an image and a registry, writes the list of images that refers to it, and installs fake
// programs on the reader's computer.
func (r *reader) publish() {
	raw, qcow2 := filepath.Join(r.root, "disk.img"), filepath.Join(r.root, "disk.qcow2")
	require.NoError(r.t, os.WriteFile(raw, append(guest.Sector(), make([]byte, 2<<20-512)...), 0o600))
	out, err := exec.CommandContext(r.t.Context(), "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw,
		qcow2).CombinedOutput()
	require.NoError(r.t, err, "%s", out)
	mux := http.NewServeMux()
	mux.Handle("/v2/", registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) { http.ServeFile(w, q, qcow2) })
	server := httptest.NewServer(mux)
	r.t.Cleanup(server.Close)
	r.server = server.Listener.Addr().String()
	list := fmt.Sprintf("images:\n- {name: debian/12, url: %s/disk.qcow2, checksum: \"sha256:%x\"}\n", server.URL,
		sha256.Sum256([]byte(read(r.t, qcow2))))
	home := filepath.Join(r.root, "home")
	for path, text := range map[string]string{
		filepath.Join(home, ".config/vmrunner/images.yaml"): list,
		filepath.Join(home, ".ssh/id_ed25519.pub"):          "ssh-ed25519 AAAA you@here\n",
		filepath.Join(r.root, "played/ssh"):                 "#!/bin/sh\necho ssh \"$@\"\n",
		filepath.Join(r.root, "played/systemctl"):           "#!/bin/sh\necho systemctl \"$@\" >>~/systemctl.log\n",
		filepath.Join(r.root, "played/xtigervncviewer"): "#!/usr/bin/env python3\nimport socket, sys\n" +
			"s = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nassert s.recv(12) == b'RFB 003.008\\n'\n",
	} {
		require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(r.t, os.WriteFile(path, []byte(text), 0o755))
	}
}
