# controller-gen has no marker for values of a map that may be null.
/description: Entry is a value, or null\./{
n
s/^\( *\)type: string/\1nullable: true\n&/
}
# Nor one that takes away the pattern of quantities, which would be shown to who writes
# 2GiB, in place of the message of the rule.
/^ *\(maximum\|current\)Ram:$/,/x-kubernetes-int-or-string/{
/pattern:/d
}
