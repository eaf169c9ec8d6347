# Nor one that bounds a map of a type of Kubernetes: without a bound, the rule of its
# quantities would be too expensive.
/^ *additionalProperties:$/{
N
s/^\( *\)additionalProperties:\n *anyOf:/\1maxProperties: 16\n&/
}
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
# The same for other quantities: their rule has the message.
/pattern: ^.*\[KMGTPE\]i/s/pattern: .*/maxLength: 64/
