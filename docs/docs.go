// Package docs embeds the user documents for the manager's pages.
package docs

import "embed"

//go:embed *.md concepts decisions reference tasks tutorials vm-types pictures/*.png pictures/*.svg
var files embed.FS

// Files returns the documents and their pictures.
func Files() embed.FS { return files }
