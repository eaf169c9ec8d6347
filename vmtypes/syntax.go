package vmtypes

// Syntax returns the first syntax error in a module, as an *Error, or nil.
func Syntax(name, source string) error {
	if _, err := fileOptions().Parse(name, source, 0); err != nil {
		return explainError(err, func(string) string { return source })
	}
	return nil
}

// CheckModule returns the errors in a module that are independent of the modules that it loads: syntax errors and
// undefined names. The error is an *Error or Errors; nil means that there are none.
func CheckModule(name, source string) error {
	_, _, err := (&loader{predeclared: Predeclared()}).compileModule(&module{name: name, source: source})
	return err
}
