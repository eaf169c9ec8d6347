package lsp

import (
	"context"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/creachadair/jrpc2"

	"vmop/vmtypes"
)

// settle is the pause in typing after which a folder is evaluated.
const settle = 150 * time.Millisecond

// A folder is a folder of VM types with open documents. Documents outside a folder belong to a folder without a name.
type folder struct {
	dir  string
	open map[string]*document // by file name
	// result is the result of the last complete evaluation.
	result *evaluation
	// settled is closed when the current evaluation ends. giveUp cancels this evaluation.
	settled chan struct{}
	giveUp  context.CancelFunc
	// complained are the documents with published diagnostics, by URI.
	complained map[string]bool
}

// A document is an open document.
type document struct {
	uri     string
	module  string // spelled as in load statements
	version int
	text    *text
	// tree is the syntax of the last text that could be parsed; nil if there is no such text.
	tree *tree
}

// place is the location of a document.
type place struct {
	dir, name string
	stock     string // the stock module, if the document is a copy of it
}

// locateDocument returns the place of a document.
func (s *server) locateDocument(uri string) place {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return place{name: uri[strings.LastIndexAny(uri, "/:")+1:]}
	}
	path := filepath.Clean(u.Path)
	if module := s.library.moduleAt(path); module != "" {
		return place{stock: module}
	}
	return place{dir: filepath.Dir(path), name: filepath.Base(path)}
}

// uriOf returns the URI of a file.
func uriOf(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// setContent sets the text of a document.
func (d *document) setContent(content *text, version int) {
	d.text, d.version = content, version
	if t := parseTree(d.module, content); t != nil {
		d.tree = t
	}
}

func (s *server) didOpen(_ context.Context, params *openParams) error {
	at := s.locateDocument(params.TextDocument.URI)
	s.mu.Lock()
	defer s.mu.Unlock()
	f, d := s.openFolder(at), &document{uri: params.TextDocument.URI, module: at.name}
	if at.stock != "" {
		d.module = at.stock
	}
	d.setContent(newText(params.TextDocument.Text), params.TextDocument.Version)
	f.open[d.module] = d
	s.evaluateSoon(f)
	return nil
}

// openFolder returns the folder for a place. It creates the folder if necessary. The caller must hold s.mu.
func (s *server) openFolder(at place) *folder {
	f := s.folders[at.dir]
	if f == nil {
		f = &folder{dir: at.dir, open: map[string]*document{}, complained: map[string]bool{}}
		s.folders[at.dir] = f
	}
	return f
}

func (s *server) didChange(_ context.Context, params *changeParams) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, d := s.findDocument(params.TextDocument.URI)
	if d == nil {
		return nil
	}
	d.setContent(d.text.applyChanges(params.ContentChanges), params.TextDocument.Version)
	s.evaluateSoon(f)
	return nil
}

// didSave evaluates the folder again, because other files may have changed as well.
func (s *server) didSave(_ context.Context, params *documentParams) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, d := s.findDocument(params.TextDocument.URI); d != nil {
		s.evaluateSoon(f)
	}
	return nil
}

// didChangeFiles evaluates the folders with changed files that are not open.
func (s *server) didChangeFiles(_ context.Context, params *watchedParams) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := map[*folder]bool{}
	for _, c := range params.Changes {
		at := s.locateDocument(c.URI)
		for _, dir := range []string{at.dir, filepath.Dir(at.dir)} { // samples are in the subfolder testdata
			if f := s.folders[dir]; f != nil && f.open[at.name] == nil {
				changed[f] = true
			}
		}
	}
	for f := range changed {
		s.evaluateSoon(f)
	}
	return nil
}

func (s *server) didClose(ctx context.Context, params *documentParams) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, d := s.findDocument(params.TextDocument.URI)
	if d == nil {
		return nil
	}
	delete(f.open, d.module)
	if len(f.open) > 0 {
		s.evaluateSoon(f)
		return nil
	}
	if f.giveUp != nil {
		f.giveUp()
	}
	delete(s.folders, f.dir)
	s.publishDiagnostics(ctx, f, nil)
	return nil
}

// findDocument returns an open document and its folder, or nil. The caller must hold s.mu.
func (s *server) findDocument(uri string) (*folder, *document) {
	at := s.locateDocument(uri)
	f := s.folders[at.dir]
	if f == nil {
		return nil, nil
	}
	name := at.name
	if at.stock != "" {
		name = at.stock
	}
	return f, f.open[name]
}

// documentFor returns an open document for a request.
func (s *server) documentFor(uri string) (*folder, document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, d := s.findDocument(uri)
	if d == nil {
		return nil, document{}, jrpc2.Errorf(codeRequestFailed, "%s is not open", uri)
	}
	return f, *d, nil
}

// evaluateSoon starts a new evaluation of a folder in the background, after a pause in typing. The caller must hold
// s.mu.
func (s *server) evaluateSoon(f *folder) {
	if f.giveUp != nil {
		f.giveUp()
	}
	ctx, giveUp := context.WithCancel(s.session)
	f.giveUp = giveUp
	settled := make(chan struct{})
	f.settled = settled
	documents := maps.Clone(f.open)
	s.background.Go(func() {
		defer giveUp()
		defer close(settled)
		timer := time.NewTimer(settle)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		result := s.options.evaluateFolder(ctx, f.dir, ownTexts(documents))
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() != nil {
			return // a later evaluation has replaced this one
		}
		result.keepNames(f.result)
		f.result = result
		s.publishDiagnostics(ctx, f, result.diagnostics)
		if s.editor.refresh {
			s.background.Go(func() {
				_, _ = s.rpc.Callback(s.session, "workspace/inlayHint/refresh", nil)
			}) // the editor may decline
		}
	})
}

// ownTexts returns the contents of the documents except copies of the library.
func ownTexts(documents map[string]*document) map[string]*text {
	contents := map[string]*text{}
	for name, d := range documents {
		if !strings.HasPrefix(name, vmtypes.StockPrefix) {
			contents[name] = d.text
		}
	}
	return contents
}

// publishDiagnostics sends the diagnostics of a folder's files to the editor, and clears the diagnostics of corrected
// files. The caller must hold s.mu.
func (s *server) publishDiagnostics(ctx context.Context, f *folder, diagnostics map[string][]diagnostic) {
	uris := map[string][]diagnostic{}
	for uri := range f.complained {
		uris[uri] = []diagnostic{}
	}
	for _, d := range f.open {
		if !strings.HasPrefix(d.module, vmtypes.StockPrefix) {
			uris[d.uri] = []diagnostic{}
		}
	}
	for file, list := range diagnostics {
		uri := uriOf(filepath.Join(f.dir, file))
		if d := f.open[file]; d != nil {
			uri = d.uri
		}
		uris[uri] = list
	}
	for _, uri := range slices.Sorted(maps.Keys(uris)) {
		params := publishParams{URI: uri, Diagnostics: uris[uri]}
		if _, d := s.findDocument(uri); d != nil {
			params.Version = new(d.version)
		}
		f.complained[uri] = len(uris[uri]) > 0
		_ = s.rpc.Notify(ctx, "textDocument/publishDiagnostics", params) // a disconnected editor needs none
	}
}
