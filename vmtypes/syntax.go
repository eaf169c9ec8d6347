package vmtypes

// Syntax returns what is wrong with the syntax of a module called name, an
// [*Error] with its place; nil if it can be read.
func Syntax(name, source string) error {
	if _, err := fileOptions().Parse(name, source, 0); err != nil {
		return explain(err, func(string) string { return source })
	}
	return nil
}
