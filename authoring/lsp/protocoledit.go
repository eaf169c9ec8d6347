package lsp

// The types of the protocol for references, changes and actions.

type referenceParams struct {
	positionParams
	Context struct {
		IncludeDeclaration bool `json:"includeDeclaration"`
	} `json:"context"`
}

type highlight struct {
	Range span `json:"range"`
}

type renameParams struct {
	positionParams
	NewName string `json:"newName"`
}

// A workspaceEdit has either Changes, by URI, or DocumentChanges: documentEdit and createFile in order.
type workspaceEdit struct {
	Changes         map[string][]textEdit `json:"changes,omitempty"`
	DocumentChanges []any                 `json:"documentChanges,omitempty"`
}

type documentEdit struct {
	TextDocument versionedID `json:"textDocument"`
	Edits        []textEdit  `json:"edits"`
}

type createFile struct {
	Kind string `json:"kind"` // create
	URI  string `json:"uri"`
}

// A versionedID has no version for a file that is not open.
type versionedID struct {
	URI     string `json:"uri"`
	Version *int   `json:"version"`
}

// Kinds of actions.
const (
	quickFix = "quickfix"
	fixAll   = "source.fixAll"
)

type codeActionParams struct {
	rangeParams
	Context struct {
		Only []string `json:"only"`
	} `json:"context"`
}

type codeAction struct {
	Title       string         `json:"title"`
	Kind        string         `json:"kind"`
	Diagnostics []diagnostic   `json:"diagnostics,omitempty"`
	IsPreferred bool           `json:"isPreferred,omitempty"`
	Edit        *workspaceEdit `json:"edit"`
}

type foldingRange struct {
	StartLine int    `json:"startLine"`
	EndLine   int    `json:"endLine"`
	Kind      string `json:"kind,omitempty"` // imports, comment
}

type symbolParams struct {
	Query string `json:"query"`
}

type symbolInformation struct {
	Name          string   `json:"name"`
	Kind          int      `json:"kind"`
	Location      location `json:"location"`
	ContainerName string   `json:"containerName,omitempty"`
}
