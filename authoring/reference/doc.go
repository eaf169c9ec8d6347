// Package reference describes everything that authors of VM types can use: the builtins, the fields of vm and host, the
// testing module, Starlark's own functions, and the content of modules.
//
// It is the single source of documentation for people and editors: docs/vm-types/reference.md, man pages and JSON
// schemas (vmrunner vmtype doc), stubs for editors (vmrunner vmtype stubs), hover and completion of the language server
// (package lsp). Tests compare it with the evaluator.
//
// Types use the notation of Python's type hints. Texts are Markdown, and their first sentence is a summary.
package reference
