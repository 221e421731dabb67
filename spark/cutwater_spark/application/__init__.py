"""One Spark application for several drivers: one JVM, in which each has a session and a Py4J server of its own."""
