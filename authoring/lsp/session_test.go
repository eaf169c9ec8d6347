package lsp

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/creachadair/jrpc2"
	rpc "github.com/creachadair/jrpc2/channel"
	"github.com/stretchr/testify/require"
)

// An editor sends many requests while the author types. Each request is answered, and the last text is evaluated.
func TestManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.star"), []byte(launching("pass")), 0o644))
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), in, out, inProcessOptions()) }()

	last := make(chan publishParams, 1000)
	client := jrpc2.NewClient(rpc.LSP(fromServer, toServer), &jrpc2.ClientOptions{OnNotify: func(r *jrpc2.Request) {
		var p publishParams
		if r.UnmarshalParams(&p) == nil {
			last <- p
		}
	}})
	_, err := client.Call(t.Context(), "initialize", map[string]any{"capabilities": map[string]any{}})
	require.NoError(t, err)
	uri := uriOf(filepath.Join(dir, "a.star"))
	document := map[string]any{"uri": uri, "version": 0, "text": launching("vm.x")}
	require.NoError(t, client.Notify(t.Context(), "textDocument/didOpen", map[string]any{"textDocument": document}))

	const edits = 40
	var wait sync.WaitGroup
	for _, method := range []string{
		"hover", "completion", "definition", "signatureHelp", "documentSymbol", "inlayHint",
		"formatting",
	} {
		wait.Go(func() {
			for range edits {
				params := map[string]any{
					"textDocument": document, "position": position{1, 7}, "range": span{End: position{9, 0}},
					"options": map[string]any{},
				}
				_, err := client.Call(t.Context(), "textDocument/"+method, params)
				require.NoError(t, err, method)
			}
		})
	}
	for n := range edits {
		statement := fmt.Sprintf("vm.x%d", n)
		if n == edits-1 {
			statement = "vm.maximumRm"
		}
		require.NoError(t, client.Notify(t.Context(), "textDocument/didChange",
			changed(uri, n+1, launching(statement))))
	}
	wait.Wait()
	for p := range last {
		require.LessOrEqual(t, *p.Version, edits)
		if *p.Version == edits {
			require.Contains(t, p.Diagnostics[0].Message, "maximumRm")
			break
		}
	}
	_, err = client.Call(t.Context(), "shutdown", nil)
	require.NoError(t, err)
	require.NoError(t, client.Notify(t.Context(), "exit", nil))
	require.NoError(t, <-served)
	require.NoError(t, toServer.Close()) // an editor closes its end last
}

func changed(uri string, version int, content string) changeParams {
	var p changeParams
	p.TextDocument.URI, p.TextDocument.Version = uri, version
	p.ContentChanges = []contentChange{{Text: content}}
	return p
}

// An editor's messages during its exit, such as a late answer, don't matter.
func TestMessagesDuringTheExit(t *testing.T) {
	t.Parallel()
	for range 300 {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- Serve(t.Context(), in, out, inProcessOptions()) }()
		editor := rpc.LSP(fromServer, toServer)
		go func() {
			for _, request := range []string{"initialize", "shutdown"} {
				_ = editor.Send(fmt.Appendf(nil, `{"jsonrpc": "2.0", "id": 1, "method": %q, "params": {}}`, request))
				_, _ = editor.Recv()
			}
			go func() { _, _ = io.Copy(io.Discard, fromServer) }()
			_ = editor.Send([]byte(`{"jsonrpc": "2.0", "method": "exit"}`))
			for range 20 {
				_ = editor.Send([]byte(`{"jsonrpc": "2.0", "id": 3, "result": null}`))
			}
		}()
		require.NoError(t, <-served)
		require.NoError(t, in.Close())
	}
}
