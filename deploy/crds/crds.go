// Package crds embeds the project's CustomResourceDefinitions, which are generated from package api/v1.
package crds

import "embed"

//go:embed *.yaml
var files embed.FS

// Files returns the definitions, one CustomResourceDefinition per file.
func Files() embed.FS { return files }
