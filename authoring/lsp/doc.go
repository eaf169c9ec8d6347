// Package lsp implements a language server for VM types (Language Server Protocol 3.17).
//
// [Serve] reads and writes the protocol's frames. A [Server] holds the documents that are
// open; they hide the files of their folder. What an editor asks of a document (hover,
// completion, definitions …) is answered from its syntax and from package reference, at
// once. What only the evaluator knows (diagnostics, and the hints with rendered arguments)
// is computed after a change has settled: every type of the folder is evaluated with its
// samples, elsewhere, where a hostile module can be stopped. Work that a later change has
// made obsolete is canceled.
//
// Positions count UTF-16 code units, as the protocol wants unless agreed
// otherwise.
//
// See docs/decisions/0028-language-server.md.
package lsp
