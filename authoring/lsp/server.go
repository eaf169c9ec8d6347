package lsp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/handler"

	"vmop/authoring/lint"
	"vmop/authoring/vmtypestest"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// An Evaluator evaluates untrusted modules. Its methods must return within bounded time for any module.
type Evaluator interface {
	// Launch returns the plan of a type in a source for a VM, like [vmtypes.Type.Launch].
	Launch(
		ctx context.Context, source vmtypes.Source, vmType string, vm vmspec.Spec, host vmtypes.Host,
	) (*plan.Plan, error)
	// Diagnose returns the errors in a module that loading it detects.
	Diagnose(ctx context.Context, source vmtypes.Source, file string) error
	// Describe returns the description of a type.
	Describe(ctx context.Context, source vmtypes.Source, vmType string) (vmtypes.Description, error)
	// Test runs the tests of a file.
	Test(ctx context.Context, source vmtypes.Source, file string) ([]vmtypestest.Result, error)
}

// Options are the dependencies of a server.
type Options struct {
	Evaluator Evaluator
	// Format returns the formatted text of a module.
	Format func(name, source string) (string, error)
	// QEMU returns the installed QEMU for the program that a type names, or nil. It must never start a program only
	// because a type names it.
	QEMU func(program string) QEMU
	// Library is a folder of the user's cache for copies of the library, which editors show. If it is empty, the copy
	// is temporary.
	Library string
}

// A QEMU is an installed QEMU that also describes its options.
type QEMU interface {
	lint.QEMU
	// Help returns the description of an option, of its value or, if property is not empty, of a property of an option
	// with this value, in Markdown; "" without a description.
	Help(flag, value, property string) string
}

// askable returns the QEMU for the linter; nil for nil.
func askable(qemu QEMU) lint.QEMU {
	if qemu == nil {
		return nil
	}
	return qemu
}

// ErrNoShutdown means that the editor disconnected without a shutdown request.
var ErrNoShutdown = errors.New("the editor ended the session without a shutdown")

// Error codes of the protocol in addition to JSON-RPC.
const (
	codeNotInitialized jrpc2.Code = -32002
	codeRequestFailed  jrpc2.Code = -32803

	codeRequestCancelled jrpc2.Code = -32800
)

// support contains what the editor supports.
type support struct {
	refresh        bool // it can refresh hints
	watches        bool // it can watch files
	versionedEdits bool // edits of several documents can have versions
	createsFiles   bool // edits can create files
}

// A server is one session with an editor.
type server struct {
	options Options
	rpc     *jrpc2.Server
	library *libraryCopy
	session context.Context // ends with the session
	// endInput ends the session after the messages that were received.
	endInput func()

	mu          sync.Mutex
	initialized bool
	down        bool // the editor has sent shutdown
	exited      bool
	editor      support
	folders     map[string]*folder

	// background contains work that continues after a request.
	background sync.WaitGroup
}

// mostRequests is the maximum number of requests at the same time. It is larger than the number of documents in a
// window, because requests for hints may wait for an evaluation, and other requests must not wait for them.
const mostRequests = 64

// Serve answers an editor until the editor disconnects, in ends, or the context ends. If the editor sends exit without
// shutdown, the error is [ErrNoShutdown]. The end of in alone is not an error, because in also ends when the editor is
// killed.
func Serve(ctx context.Context, in io.Reader, out io.WriteCloser, options Options) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &server{
		options: options, library: &libraryCopy{cache: options.Library}, session: ctx, folders: map[string]*folder{},
	}
	s.rpc = jrpc2.NewServer(s, &jrpc2.ServerOptions{
		AllowPush: true, DisableBuiltin: true, Concurrency: mostRequests,
		NewContext: func() context.Context { return ctx },
	})
	c := newChannel(in, out)
	s.endInput = c.endInput
	s.rpc.Start(c)
	stop := context.AfterFunc(ctx, c.endInput)
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
			if r := recover(); r != nil { // keep serving after a failed request
				err = jrpc2.Errorf(jrpc2.InternalError, "%s: %v", method, r)
			}
		}()
		if err := s.refuseState(method); err != nil {
			if request.IsNotification() {
				return nil, nil // the editor has disconnected
			}
			return nil, err
		}
		result, err = h(ctx, request)
		if ctx.Err() != nil && err != nil {
			err = jrpc2.Errorf(codeRequestCancelled, "%s was cancelled", method)
		}
		return result, err
	}
}

// refuseState returns an error for requests before initialize and after shutdown.
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
		"textDocument/references":         handler.New(s.findReferences),
		"textDocument/documentHighlight":  handler.New(s.documentHighlight),
		"textDocument/prepareRename":      handler.New(s.prepareRename),
		"textDocument/rename":             handler.New(s.rename),
		"textDocument/codeAction":         handler.New(s.codeAction),
		"textDocument/foldingRange":       handler.New(s.foldingRange),
		"workspace/symbol":                handler.New(s.workspaceSymbol),
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
	workspace := params.Capabilities.Workspace
	s.editor = support{
		refresh:        workspace.InlayHint.RefreshSupport,
		watches:        workspace.DidChangeWatchedFiles.DynamicRegistration,
		versionedEdits: workspace.WorkspaceEdit.DocumentChanges,
		createsFiles:   slices.Contains(workspace.WorkspaceEdit.ResourceOperations, "create"),
	}
	return &initializeResult{
		Capabilities: capabilities{
			PositionEncoding: "utf-16",
			TextDocumentSync: syncOptions{OpenClose: true, Change: 2, Save: true},
			HoverProvider:    true, DefinitionProvider: true, DocumentSymbolProvider: true, InlayHintProvider: true,
			ReferencesProvider: true, DocumentHighlightProvider: true, FoldingRangeProvider: true,
			WorkspaceSymbolProvider: true, RenameProvider: renameOptions{PrepareProvider: true},
			CodeActionProvider:         codeActionOptions{CodeActionKinds: []string{quickFix, fixAll}},
			CompletionProvider:         triggerOptions{[]string{".", `"`, "/"}},
			SignatureHelpProvider:      triggerOptions{[]string{"(", ","}},
			DocumentFormattingProvider: true,
		},
		ServerInfo: serverInfo{Name: "vmrunner vmtype lsp"},
	}, nil
}

// watchFiles asks the editor for notifications about changed files that are not open.
func (s *server) watchFiles(context.Context, *jrpc2.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.editor.watches {
		params := registrationParams{[]registration{{
			ID: "files", Method: "workspace/didChangeWatchedFiles",
			RegisterOptions: watchOptions{[]watcher{{"**/*.{star,txtar,yaml}"}}},
		}}}
		s.background.Go(func() {
			_, _ = s.rpc.Callback(s.session, "client/registerCapability", params)
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
	s.endInput()
	return nil, nil
}

func (s *server) cancelRequest(_ context.Context, params *cancelParams) error {
	s.rpc.CancelRequest(string(params.ID))
	return nil
}
