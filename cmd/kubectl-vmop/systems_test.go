package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"vmop/test/tier"
)

// The program compiles for the other systems of users' computers. The test only type-checks it, which is faster than
// compiling all its packages.
func TestOtherSystems(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for _, system := range []string{"darwin", "windows"} {
		t.Run(system, func(t *testing.T) {
			all, err := packages.Load(&packages.Config{
				Context: t.Context(),
				Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
					packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
				Env: append(os.Environ(), "GOOS="+system, "GOARCH=arm64", "CGO_ENABLED=0"),
				ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
					file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
					if err == nil && strings.Contains(name, "/pkg/mod/") {
						dropBodies(file) // other modules compile them
					}
					return file, err
				},
			}, ".")
			require.NoError(t, err)
			packages.Visit(all, nil, func(p *packages.Package) {
				if strings.HasPrefix(p.PkgPath, "vmop/") {
					require.Empty(t, p.Errors, p.PkgPath)
				}
			})
		})
	}
}

func dropBodies(file *ast.File) {
	for _, declared := range file.Decls {
		if f, is := declared.(*ast.FuncDecl); is {
			f.Body = nil
		}
	}
}
