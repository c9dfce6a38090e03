package io.crore;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;

/** A storage with one file for each key. Two programs at a time must not share a folder. */
public final class FileStorage implements Storage {
  private final File folder;

  /**
   * A storage.
   *
   * @param folder where the files are; it is made if it is not there
   */
  public FileStorage(File folder) {
    this.folder = folder;
  }

  private File file(String key) throws IOException {
    if (!folder.isDirectory() && !folder.mkdirs() && !folder.isDirectory()) {
      throw new IOException("cannot make the folder " + folder);
    }
    return new File(folder, URLEncoder.encode(key, "UTF-8").replace("*", "%2A").replace(".", "%2E"));
  }

  @Override
  public String get(String key) throws IOException {
    try (InputStream in = new FileInputStream(file(key))) {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      byte[] part = new byte[4_096];
      for (int count = in.read(part); count >= 0; count = in.read(part)) bytes.write(part, 0, count);
      return new String(bytes.toByteArray(), StandardCharsets.UTF_8);
    } catch (FileNotFoundException e) {
      return null;
    }
  }

  /** Replaces the file when the new one is on disk, so that there is always an old or a new one. */
  @Override
  public void set(String key, String value) throws IOException {
    File file = file(key);
    File next = new File(folder, file.getName() + ".new");
    try (FileOutputStream out = new FileOutputStream(next)) {
      out.write(value.getBytes(StandardCharsets.UTF_8));
      out.getFD().sync();
    }
    if (!next.renameTo(file)) throw new IOException("cannot replace " + file);
  }

  @Override
  public void delete(String key) throws IOException {
    File file = file(key);
    if (!file.delete() && file.exists()) throw new IOException("cannot delete " + file);
  }
}
