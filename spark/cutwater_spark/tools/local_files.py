"""Permissions of local files, set by the JVM itself.

Hadoop sets them for each file that it creates, also where they are the default ones. Without its native library,
which pyspark does not ship, it starts `chmod` for that: eight processes an epoch, for the checkpoint's files and
their checksums.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

CLASS = "io.cutwater.LocalFiles"
_PACKAGE, _NAME = CLASS.rsplit(".", 1)
_SOURCE = f"""
package {_PACKAGE};
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class {_NAME} extends RawLocalFileSystem {{
    public void setPermission(Path path, FsPermission wanted) throws IOException {{
        short bits = wanted.toShort();
        if ((bits & ~0777) != 0) {{
            super.setPermission(path, wanted);
            return;
        }}
        try {{
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(new FsPermission(bits).toString()));
        }} catch (UnsupportedOperationException noPermissionsHere) {{
            super.setPermission(path, wanted);
        }}
    }}
}}
"""


def set_permissions_in_jvm(session: SparkSession) -> None:
    """Let this JVM's local file system start no process for a file. Raise Py4JError if this Spark has another one.

    The class is compiled by Spark's own compiler, so that no jar is needed. Spark and its tasks all have the one
    instance that Hadoop caches; the layer of checksums above it stays.
    """
    java: Any = session._jvm
    conf = session._jsc.hadoopConfiguration()
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE)
    raw = compiler.getClassLoader().loadClass(CLASS).newInstance()
    raw.initialize(java.java.net.URI("file:///"), conf)
    inner = java.java.lang.Class.forName("org.apache.hadoop.fs.FilterFileSystem").getDeclaredField("fs")
    inner.setAccessible(True)
    inner.set(java.org.apache.hadoop.fs.FileSystem.getLocal(conf), raw)
