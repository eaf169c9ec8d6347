package lsp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/handler"

	"vmop/authoring/lint"
	"vmop/authoring/vmtypestest"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// An Evaluator evaluates untrusted modules: it must return within bounded time, whatever
// they do.
type Evaluator interface {
	// Launch returns the plan that a type of a source makes for a VM, as
	// [vmtypes.Type.Launch] does.
	Launch(
		ctx context.Context, source vmtypes.Source, vmType string, vm vmspec.Spec, host vmtypes.Host,
	) (*plan.Plan, error)
	// Diagnose returns what is wrong with a module, as far as loading it shows.
	Diagnose(ctx context.Context, source vmtypes.Source, file string) error
	// Describe returns what a type says of itself.
	Describe(ctx context.Context, source vmtypes.Source, vmType string) (vmtypes.Description, error)
	// Test runs the tests of a file.
	Test(ctx context.Context, source vmtypes.Source, file string) ([]vmtypestest.Result, error)
}

// Options are the dependencies of a server.
type Options struct {
	Evaluator Evaluator
	// Format returns the formatted text of a module.
	Format func(name, source string) (string, error)
	// QEMU returns the installed QEMU with the name of a program that a type names; nil if
	// there is none. It must never start a program because a type names it.
	QEMU func(program string) lint.QEMU
}

// ErrNoShutdown says that the editor disconnected without a shutdown request.
var ErrNoShutdown = errors.New("the editor ended the session without a shutdown")

// The protocol's error codes that JSON-RPC doesn't have.
const (
	codeNotInitialized jrpc2.Code = -32002
	codeRequestFailed  jrpc2.Code = -32803
)

// A server is one session with an editor.
type server struct {
	options Options
	rpc     *jrpc2.Server
	library *libraryCopy
	session context.Context // ends with the session

	mu          sync.Mutex
	initialized bool
	down        bool // shutdown was asked for
	exited      bool
	refresh     bool // the editor can refresh hints
	watches     bool // the editor can watch files
	folders     map[string]*folder

	// background is work that outlives a request.
	background sync.WaitGroup
}

// Serve answers an editor until it disconnects, in ends or the context does. Disconnecting
// without a shutdown is [ErrNoShutdown]; the end of in is none, since that is how an editor
// ends that was killed.
func Serve(ctx context.Context, in io.Reader, out io.WriteCloser, options Options) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &server{options: options, library: new(libraryCopy), session: ctx, folders: map[string]*folder{}}
	s.rpc = jrpc2.NewServer(s, &jrpc2.ServerOptions{
		AllowPush: true, DisableBuiltin: true, Concurrency: 4, NewContext: func() context.Context { return ctx },
	})
	s.rpc.Start(newChannel(in, out))
	stop := context.AfterFunc(ctx, s.rpc.Stop)
	err := s.rpc.Wait()
	stop()
	cancel()
	s.background.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.exited && !s.down:
		err = ErrNoShutdown
	case s.exited:
		err = nil
	case err != nil:
		err = fmt.Errorf("talk to the editor: %w", err)
	}
	return errors.Join(err, s.library.removeCopy())
}

// Assign implements jrpc2.Assigner.
func (s *server) Assign(_ context.Context, method string) jrpc2.Handler {
	h := s.handlers()[method]
	if h == nil {
		return nil
	}
	return func(ctx context.Context, request *jrpc2.Request) (result any, err error) {
		defer func() {
			if r := recover(); r != nil { // one answer less is better than no editor
				err = jrpc2.Errorf(jrpc2.InternalError, "%s: %v", method, r)
			}
		}()
		if err := s.refuseState(method); err != nil {
			if request.IsNotification() {
				return nil, nil // the editor is gone
			}
			return nil, err
		}
		return h(ctx, request)
	}
}

// refuseState refuses what comes before initialize and after shutdown.
func (s *server) refuseState(method string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case method == "exit":
		return nil
	case s.down:
		return jrpc2.Errorf(jrpc2.InvalidRequest, "%s after shutdown", method)
	case !s.initialized && method != "initialize":
		return jrpc2.Errorf(codeNotInitialized, "%s before initialize", method)
	}
	return nil
}

func (s *server) handlers() map[string]jrpc2.Handler {
	return map[string]jrpc2.Handler{
		"initialize":                      handler.New(s.initialize),
		"initialized":                     s.watchFiles,
		"shutdown":                        s.shutdown,
		"exit":                            s.exit,
		"$/cancelRequest":                 handler.New(s.cancelRequest),
		"workspace/didChangeWatchedFiles": handler.New(s.didChangeFiles),
		"textDocument/didOpen":            handler.New(s.didOpen),
		"textDocument/didChange":          handler.New(s.didChange),
		"textDocument/didSave":            handler.New(s.didSave),
		"textDocument/didClose":           handler.New(s.didClose),
		"textDocument/hover":              handler.New(s.hover),
		"textDocument/completion":         handler.New(s.complete),
		"textDocument/signatureHelp":      handler.New(s.signatureHelp),
		"textDocument/definition":         handler.New(s.findDefinition),
		"textDocument/documentSymbol":     handler.New(s.documentSymbol),
		"textDocument/formatting":         handler.New(s.formatting),
		"textDocument/inlayHint":          handler.New(s.inlayHint),
	}
}

func (s *server) initialize(_ context.Context, params *initializeParams) (*initializeResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.initialized {
		return nil, jrpc2.Errorf(jrpc2.InvalidRequest, "initialize was called before")
	}
	s.initialized = true
	s.refresh = params.Capabilities.Workspace.InlayHint.RefreshSupport
	s.watches = params.Capabilities.Workspace.DidChangeWatchedFiles.DynamicRegistration
	return &initializeResult{
		Capabilities: capabilities{
			PositionEncoding: "utf-16",
			TextDocumentSync: syncOptions{OpenClose: true, Change: 2, Save: true},
			HoverProvider:    true, DefinitionProvider: true, DocumentSymbolProvider: true, InlayHintProvider: true,
			CompletionProvider:         triggerOptions{[]string{".", `"`, "/"}},
			SignatureHelpProvider:      triggerOptions{[]string{"(", ","}},
			DocumentFormattingProvider: true,
		},
		ServerInfo: serverInfo{Name: "vmrunner vmtype lsp"},
	}, nil
}

// watchFiles asks the editor for notifications about files that change without being open.
func (s *server) watchFiles(context.Context, *jrpc2.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches {
		params := registrationParams{[]registration{{
			ID: "files", Method: "workspace/didChangeWatchedFiles",
			RegisterOptions: watchOptions{[]watcher{{"**/*.{star,txtar,yaml}"}}},
		}}}
		s.background.Go(func() {
			_,
				_ = s.rpc.Callback(s.session, "client/registerCapability", params)
		}) // the editor may decline
	}
	return nil, nil
}

func (s *server) shutdown(context.Context, *jrpc2.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	return nil, nil
}

func (s *server) exit(context.Context, *jrpc2.Request) (any, error) {
	s.mu.Lock()
	s.exited = true
	s.mu.Unlock()
	s.rpc.Stop()
	return nil, nil
}

func (s *server) cancelRequest(_ context.Context, params *cancelParams) error {
	s.rpc.CancelRequest(string(params.ID))
	return nil
}
