package vmtypes

// Syntax returns the syntax error of a module as an [*Error] with its place, or nil.
func Syntax(name, source string) error {
	if _, err := fileOptions().Parse(name, source, 0); err != nil {
		return explainError(err, func(string) string { return source })
	}
	return nil
}
