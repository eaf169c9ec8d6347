package lsp

import (
	"encoding/json"

	"vmop/authoring/lint"
)

// The used types of the protocol; see its specification, version 3.17. All numbers count from 0.

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type span struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type location struct {
	URI   string `json:"uri"`
	Range span   `json:"range"`
}

type initializeParams struct {
	Capabilities struct {
		Workspace struct {
			WorkspaceEdit struct {
				DocumentChanges    bool     `json:"documentChanges"`
				ResourceOperations []string `json:"resourceOperations"`
			} `json:"workspaceEdit"`
			InlayHint struct {
				RefreshSupport bool `json:"refreshSupport"`
			} `json:"inlayHint"`
			DidChangeWatchedFiles struct {
				DynamicRegistration bool `json:"dynamicRegistration"`
			} `json:"didChangeWatchedFiles"`
		} `json:"workspace"`
	} `json:"capabilities"`
}

type initializeResult struct {
	Capabilities capabilities `json:"capabilities"`
	ServerInfo   serverInfo   `json:"serverInfo"`
}

type serverInfo struct {
	Name string `json:"name"`
}

type capabilities struct {
	PositionEncoding           string         `json:"positionEncoding"`
	TextDocumentSync           syncOptions    `json:"textDocumentSync"`
	HoverProvider              bool           `json:"hoverProvider"`
	CompletionProvider         triggerOptions `json:"completionProvider"`
	SignatureHelpProvider      triggerOptions `json:"signatureHelpProvider"`
	DefinitionProvider         bool           `json:"definitionProvider"`
	DocumentSymbolProvider     bool           `json:"documentSymbolProvider"`
	DocumentFormattingProvider bool           `json:"documentFormattingProvider"`
	InlayHintProvider          bool           `json:"inlayHintProvider"`
	ReferencesProvider         bool           `json:"referencesProvider"`
	DocumentHighlightProvider  bool           `json:"documentHighlightProvider"`
	FoldingRangeProvider       bool           `json:"foldingRangeProvider"`
	WorkspaceSymbolProvider    bool           `json:"workspaceSymbolProvider"`

	RenameProvider     renameOptions     `json:"renameProvider"`
	CodeActionProvider codeActionOptions `json:"codeActionProvider"`
}

type renameOptions struct {
	PrepareProvider bool `json:"prepareProvider"`
}

type codeActionOptions struct {
	CodeActionKinds []string `json:"codeActionKinds"`
}

type syncOptions struct {
	OpenClose bool `json:"openClose"`
	Change    int  `json:"change"` // 2: incremental changes
	Save      bool `json:"save"`
}

type triggerOptions struct {
	TriggerCharacters []string `json:"triggerCharacters"`
}

type documentID struct {
	URI string `json:"uri"`
}

type documentParams struct {
	TextDocument documentID `json:"textDocument"`
}

type positionParams struct {
	TextDocument documentID `json:"textDocument"`
	Position     position   `json:"position"`
}

type rangeParams struct {
	TextDocument documentID `json:"textDocument"`
	Range        span       `json:"range"`
}

type openParams struct {
	TextDocument struct {
		URI     string `json:"uri"`
		Version int    `json:"version"`
		Text    string `json:"text"`
	} `json:"textDocument"`
}

type changeParams struct {
	TextDocument struct {
		URI     string `json:"uri"`
		Version int    `json:"version"`
	} `json:"textDocument"`
	ContentChanges []contentChange `json:"contentChanges"`
}

// A contentChange without a range contains the whole text.
type contentChange struct {
	Range *span  `json:"range"`
	Text  string `json:"text"`
}

type watchedParams struct {
	Changes []documentID `json:"changes"`
}

type registrationParams struct {
	Registrations []registration `json:"registrations"`
}

type registration struct {
	ID              string       `json:"id"`
	Method          string       `json:"method"`
	RegisterOptions watchOptions `json:"registerOptions"`
}

type watchOptions struct {
	Watchers []watcher `json:"watchers"`
}

type watcher struct {
	GlobPattern string `json:"globPattern"`
}

type cancelParams struct {
	ID json.RawMessage `json:"id"`
}

// Severities of diagnostics.
const (
	severityError       = 1
	severityWarning     = 2
	severityInformation = 3
)

type diagnostic struct {
	Range    span      `json:"range"`
	Severity int       `json:"severity"`
	Source   string    `json:"source"`
	Code     string    `json:"code,omitempty"`
	Message  string    `json:"message"`
	Related  []related `json:"relatedInformation,omitempty"`

	repair *lint.Repair // may be nil
}

type related struct {
	Location location `json:"location"`
	Message  string   `json:"message"`
}

type publishParams struct {
	URI         string       `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type markup struct {
	Kind  string `json:"kind"` // markdown
	Value string `json:"value"`
}

func markdownOf(text string) *markup { return &markup{Kind: "markdown", Value: text} }

type hover struct {
	Contents *markup `json:"contents"`
	Range    *span   `json:"range,omitempty"`
}

// Kinds of completions.
const (
	kindFunction = 3
	kindField    = 5
	kindVariable = 6
	kindModule   = 9
	kindProperty = 10
	kindValue    = 12
	kindFile     = 17
)

type completionList struct {
	IsIncomplete bool             `json:"isIncomplete"`
	Items        []completionItem `json:"items"`
}

type completionItem struct {
	Label         string    `json:"label"`
	Kind          int       `json:"kind"`
	Detail        string    `json:"detail,omitempty"`
	Documentation *markup   `json:"documentation,omitempty"`
	SortText      string    `json:"sortText,omitempty"`
	TextEdit      *textEdit `json:"textEdit,omitempty"`
}

type textEdit struct {
	Range   span   `json:"range"`
	NewText string `json:"newText"`
}

type signatureHelp struct {
	Signatures      []signature `json:"signatures"`
	ActiveSignature int         `json:"activeSignature"`
	ActiveParameter int         `json:"activeParameter"`
}

type signature struct {
	Label         string      `json:"label"`
	Documentation *markup     `json:"documentation,omitempty"`
	Parameters    []parameter `json:"parameters"`
}

type parameter struct {
	Label         string  `json:"label"`
	Documentation *markup `json:"documentation,omitempty"`
}

// Kinds of symbols.
const (
	symbolModule   = 2
	symbolFunction = 12
	symbolConstant = 14
)

type documentSymbol struct {
	Name           string `json:"name"`
	Detail         string `json:"detail,omitempty"`
	Kind           int    `json:"kind"`
	Range          span   `json:"range"`
	SelectionRange span   `json:"selectionRange"`
}

type inlayHint struct {
	Position    position `json:"position"`
	Label       string   `json:"label"`
	Tooltip     string   `json:"tooltip,omitempty"`
	PaddingLeft bool     `json:"paddingLeft"`
}
