// Package crds has the definitions of the project's resources, as clusters get them: generated of package api/v1.
package crds

import "embed"

//go:embed *.yaml
var files embed.FS

// Files returns the definitions, one CustomResourceDefinition a file.
func Files() embed.FS { return files }
