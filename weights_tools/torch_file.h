/* A file that torch.save or TorchScript wrote: what it pickled, and the bytes of its storages.
 *
 * There are two containers. Since PyTorch 1.6 it is a zip archive: ROOT/data.pkl and one member a
 * storage, ROOT/data/KEY. Before, it was five pickles (a magic number, a protocol version, facts
 * about the machine, the object, the keys of its storages), then each storage's bytes behind a
 * count of its elements. */
#ifndef FC_TORCH_FILE_H
#define FC_TORCH_FILE_H

#include "weights_tools/pickle.h"
#include "weights_tools/zip.h"

typedef struct fc_torch_file fc_torch_file;

/* Opens path, reads its pickle and nothing of its storages. On success *file is the caller's until
 * fc_torch_file_close.
 * Errors: IO, FORMAT (also for files of big-endian machines), MEMORY. */
flatclip_status fc_torch_file_open(const char *path, fc_torch_file **file, flatclip_error *err);
void fc_torch_file_close(fc_torch_file *file); /* NULL is allowed */

const fc_pickle_value *fc_torch_file_root(const fc_torch_file *file);

/* The archive; NULL for a legacy file. All its members lie in one folder, "archive/". */
const fc_zip *fc_torch_file_zip(const fc_torch_file *file);
const char *fc_torch_file_folder(const fc_torch_file *file);

/* The archive's member FOLDER/first second ("data/", "17"), or NULL. */
const fc_zip_member *fc_torch_file_member(const fc_torch_file *file, const char *first,
                                          const char *second);

/* Checks size and checksum of a storage, if that was not done before. Errors: as of reading. */
flatclip_status fc_torch_file_check(fc_torch_file *file, const fc_pickle_value *storage,
                                    flatclip_error *err);

/* Reads bytes first to first + bytes - 1 of a storage of this file's pickle. Its size and, in an
 * archive, its checksum are checked the first time that it is read. A deflated storage is inflated
 * whole, up to 512 MiB, and kept until another one is read.
 * Errors: IO, FORMAT (names the storage), MEMORY, ARGUMENT for a range outside it. */
flatclip_status fc_torch_file_read(fc_torch_file *file, const fc_pickle_value *storage,
                                   uint64_t first, size_t bytes, void *out, flatclip_error *err);

#endif
