package lsp

import (
	"maps"
	"slices"
)

// workspaceEdit returns the edits of modules in the document's folder, by module, in the form that the editor supports.
func (v *view) workspaceEdit(edits map[string][]textEdit) *workspaceEdit {
	e := &workspaceEdit{}
	for _, module := range slices.Sorted(maps.Keys(edits)) {
		uri := v.uriOfModule(module)
		if !v.editor.versionedEdits {
			if e.Changes == nil {
				e.Changes = map[string][]textEdit{}
			}
			e.Changes[uri] = edits[module]
			continue
		}
		e.DocumentChanges = append(e.DocumentChanges, documentEdit{
			TextDocument: versionedID{URI: uri, Version: v.versionOf(module)}, Edits: edits[module],
		})
	}
	return e
}

// versionOf returns the version of an open document; nil for a file.
func (v *view) versionOf(module string) *int {
	v.server.mu.Lock()
	defer v.server.mu.Unlock()
	if d := v.folder.open[module]; d != nil {
		return new(d.version)
	}
	return nil
}
