package io.cutwater;

/** A message breaks a rule at a path. It is thrown for each such event, and has no stack. */
final class UnfitException extends Exception {
    final String path;
    final String rule;

    UnfitException(String rule, String path) {
        super(rule, null, false, false);
        this.path = path;
        this.rule = rule;
    }

    UnfitException below(String outer) {
        return new UnfitException(this.rule, outer + this.path);
    }
}
