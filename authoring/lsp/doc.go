// Package lsp implements a language server for VM types (Language Server Protocol 3.17).
//
// [Serve] reads and writes the protocol's frames. The server keeps the open documents, which replace the files of their
// folder. It answers requests about a document (hover, completion, definitions …) immediately, from the document's
// syntax and package reference. Diagnostics, and hints with rendered arguments, require an evaluation. The server
// evaluates all types of the folder with their samples when the author pauses. The evaluation runs in other processes,
// where hostile modules can be stopped, and a later change cancels it.
//
// Positions count UTF-16 code units, the protocol's default.
//
// See docs/decisions/0028-language-server.md.
package lsp
