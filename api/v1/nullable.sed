# controller-gen has no marker for values of a map that may be null.
/description: Entry is a value, or null\./{
n
s/^\( *\)type: string/\1nullable: true\n&/
}
