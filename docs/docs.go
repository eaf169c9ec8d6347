// Package docs has the documents for users, as the manager's pages have them.
package docs

import "embed"

//go:embed *.md concepts decisions reference tasks tutorials vm-types pictures/*.png pictures/*.svg
var files embed.FS

// Files returns the documents and their pictures.
func Files() embed.FS { return files }
