/* JPEG by libjpeg-turbo, with the settings that Pillow uses (its defaults: the exact DCT, smooth
 * chroma), so that the pixels are the same.
 *
 * libjpeg reports errors by a callback that must not return: it jumps back to `guarded`. Everything
 * that it allocates hangs on its own object and goes with jpeg_destroy_decompress. */
#include "engine/image/decode.h"

#include "engine/image/exif.h"
#include "engine/image/resize.h"

#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

/* More scans than any encoder writes; each costs a pass over the whole picture, so that a small
 * file could otherwise keep a worker busy for hours. */
enum { MAX_SCANS = 500 };

/* libjpeg's fixed memory, beside two bytes a coefficient in progressive files. */
#define BASE_MEMORY ((uint64_t)64 << 20)

typedef struct {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr input;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    flatclip_status status; /* of the failure that jumped */
    const fc_decode_job *job;
    fc_picture picture;
    fc_resizer resizer;
} jpeg_reader;

static jpeg_reader *reader_of(j_decompress_ptr jpeg)
{
    return jpeg->client_data;
}

static void give_up(jpeg_reader *reader, flatclip_status status)
{
    reader->status = status;
    longjmp(reader->failed, 1);
}

/* -- Errors ------------------------------------------------------------------------------------ */

static flatclip_status status_of(int code)
{
    switch (code) {
    case JERR_OUT_OF_MEMORY:
    case JERR_NO_BACKING_STORE: return FLATCLIP_ERR_MEMORY;
    case JERR_IMAGE_TOO_BIG: return FLATCLIP_ERR_IMAGE_TOO_LARGE;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED: return FLATCLIP_ERR_IMAGE_UNSUPPORTED;
    default: return FLATCLIP_ERR_IMAGE_CORRUPT;
    }
}

/* libjpeg's callback for errors. */
static void on_error(j_common_ptr common)
{
    jpeg_reader *reader = common->client_data;
    const flatclip_status status = status_of(reader->errors.msg_code);
    char reason[JMSG_LENGTH_MAX];
    reader->errors.format_message(common, reason);
    fc_fail(reader->job->err, status, "%s JPEG: %s",
            status == FLATCLIP_ERR_IMAGE_UNSUPPORTED ? "unsupported kind of"
            : status == FLATCLIP_ERR_IMAGE_CORRUPT   ? "corrupt"
                                                     : "cannot decode the",
            reason);
    give_up(reader, status);
}

/* Warnings: Pillow ignores them, and what it accepts we accept. */
static void on_message(j_common_ptr common, int level)
{
    (void)common;
    (void)level;
}

static void on_output(j_common_ptr common)
{
    (void)common;
}

static void on_progress(j_common_ptr common)
{
    j_decompress_ptr jpeg = (j_decompress_ptr)common;
    jpeg_reader *reader = common->client_data;
    if (jpeg->input_scan_number > MAX_SCANS)
        give_up(reader, fc_fail(reader->job->err, FLATCLIP_ERR_IMAGE_CORRUPT,
                                "corrupt JPEG: more than %d scans", MAX_SCANS));
}

/* -- Bytes ------------------------------------------------------------------------------------- */

static void on_source_start(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static void report_end(jpeg_reader *reader)
{
    const j_decompress_ptr jpeg = &reader->jpeg;
    char where[80];
    if (jpeg->output_height == 0)
        snprintf(where, sizeof where, "in the header");
    else if (jpeg_has_multiple_scans(jpeg))
        snprintf(where, sizeof where, "in scan %d of a progressive JPEG", jpeg->input_scan_number);
    else
        snprintf(where, sizeof where, "at row %u of %u", jpeg->output_scanline,
                 jpeg->output_height);
    give_up(reader, fc_source_ended(reader->job->source, where, reader->job->err));
}

/* libjpeg's callback when it has used a block up. The end is an error, as in Pillow: libjpeg asks
 * for nothing beyond the end-of-image marker. */
static boolean on_fill(j_decompress_ptr jpeg)
{
    jpeg_reader *reader = reader_of(jpeg);
    fc_source *source = reader->job->source;
    if (!fc_source_fill(source))
        report_end(reader);
    jpeg->src->next_input_byte = source->next;
    jpeg->src->bytes_in_buffer = source->left;
    return TRUE;
}

static void on_skip(j_decompress_ptr jpeg, long bytes)
{
    size_t left = bytes > 0 ? (size_t)bytes : 0;
    while (left > jpeg->src->bytes_in_buffer) {
        left -= jpeg->src->bytes_in_buffer;
        on_fill(jpeg);
    }
    jpeg->src->next_input_byte += left;
    jpeg->src->bytes_in_buffer -= left;
}

static unsigned next_byte(j_decompress_ptr jpeg)
{
    if (jpeg->src->bytes_in_buffer == 0)
        on_fill(jpeg);
    jpeg->src->bytes_in_buffer--;
    return *jpeg->src->next_input_byte++;
}

/* -- EXIF -------------------------------------------------------------------------------------- */

/* libjpeg's callback for APP1, whose contents may be EXIF or something else. The first EXIF counts.
 * Read here because libjpeg's own way of keeping markers takes memory for each of them. */
static boolean on_app1(j_decompress_ptr jpeg)
{
    static const char intro[6] = "Exif\0";
    jpeg_reader *reader = reader_of(jpeg);
    uint8_t *exif = reader->job->scratch->exif;
    const unsigned high = next_byte(jpeg), length = high << 8 | next_byte(jpeg);
    const size_t bytes = length < 2 ? 0 : length - 2;

    for (size_t i = 0; i < bytes; i++)
        exif[i] = (uint8_t)next_byte(jpeg);
    if (reader->picture.orientation == 0 && bytes >= sizeof intro &&
        memcmp(exif, intro, sizeof intro) == 0)
        reader->picture.orientation =
            fc_exif_orientation(exif + sizeof intro, bytes - sizeof intro);
    return TRUE;
}

/* -- Decoding ---------------------------------------------------------------------------------- */

static void open_reader(jpeg_reader *reader)
{
    const j_decompress_ptr jpeg = &reader->jpeg;
    jpeg_create_decompress(jpeg);
    reader->input = (struct jpeg_source_mgr){
        .next_input_byte = reader->job->source->next,
        .bytes_in_buffer = reader->job->source->left,
        .init_source = on_source_start,
        .fill_input_buffer = on_fill,
        .skip_input_data = on_skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = on_source_start,
    };
    reader->progress.progress_monitor = on_progress;
    jpeg->src = &reader->input;
    jpeg->progress = &reader->progress;
    if (reader->job->options->exif_rotate)
        jpeg_set_marker_processor(jpeg, JPEG_APP0 + 1, on_app1);
}

/* Four bands of two-byte coefficients are the most that libjpeg keeps of a picture. */
static long memory_limit(uint64_t max_pixels)
{
    const uint64_t limit = LONG_MAX;
    return max_pixels > (limit - BASE_MEMORY) / 8 ? LONG_MAX : (long)(8 * max_pixels + BASE_MEMORY);
}

/* Pillow goes by the number of components alone. */
static flatclip_status choose_colours(jpeg_reader *reader)
{
    const j_decompress_ptr jpeg = &reader->jpeg;
    switch (jpeg->num_components) {
    case 1:
        reader->picture.kind = FC_PIXEL_GRAY;
        jpeg->out_color_space = JCS_GRAYSCALE;
        return FLATCLIP_OK;
    case 3:
        reader->picture.kind = FC_PIXEL_RGB;
        jpeg->out_color_space = JCS_RGB;
        return FLATCLIP_OK;
    case 4:
        reader->picture.kind = FC_PIXEL_CMYK_INVERTED;
        jpeg->out_color_space = JCS_CMYK;
        return FLATCLIP_OK;
    default:
        return fc_fail(reader->job->err, FLATCLIP_ERR_IMAGE_UNSUPPORTED,
                       "unsupported kind of JPEG: %d colour components, expected 1, 3 or 4",
                       jpeg->num_components);
    }
}

/* Takes no memory for pixels yet: fc_resize_begin refuses a picture that has too many. */
static flatclip_status read_header(jpeg_reader *reader)
{
    const fc_decode_job *job = reader->job;
    const j_decompress_ptr jpeg = &reader->jpeg;
    jpeg_read_header(jpeg, TRUE);
    FC_TRY(choose_colours(reader));

    jpeg->mem->max_memory_to_use = memory_limit(job->options->max_pixels);
    reader->picture.width = (int32_t)jpeg->image_width;
    reader->picture.height = (int32_t)jpeg->image_height;
    if (reader->picture.orientation == 0)
        reader->picture.orientation = 1;
    return fc_resize_begin(&reader->resizer, job->options, job->scratch, &reader->picture, job->out,
                           job->err);
}

/* Rows outside the crop are decoded all the same. jpeg_skip_scanlines would save 7 of 38 ms for a
 * 3000 x 4000 photograph, but it stops looking for errors at the bottom, and several versions of
 * libjpeg-turbo had wrong pixels next to skipped rows. */
static flatclip_status read_picture(jpeg_reader *reader)
{
    const j_decompress_ptr jpeg = &reader->jpeg;
    FC_TRY(read_header(reader));
    jpeg_start_decompress(jpeg);

    const size_t bytes = (size_t)jpeg->output_width * (size_t)jpeg->output_components + FC_ROW_PAD;
    JSAMPROW row = jpeg->mem->alloc_large((j_common_ptr)jpeg, JPOOL_IMAGE, bytes);
    memset(row, 0, bytes);
    while (jpeg->output_scanline < jpeg->output_height) {
        const int32_t y = (int32_t)jpeg->output_scanline;
        jpeg_read_scanlines(jpeg, &row, 1);
        fc_resize_row(&reader->resizer, y, row, bytes);
    }
    jpeg_finish_decompress(jpeg); /* finds out whether the file ends as it should */
    return FLATCLIP_OK;
}

/* Apart from its caller, whose variables a jump would leave undefined. */
static flatclip_status guarded(jpeg_reader *reader)
{
    if (setjmp(reader->failed))
        return reader->status;
    open_reader(reader);
    return read_picture(reader);
}

flatclip_status fc_decode_jpeg(const fc_decode_job *job)
{
    jpeg_reader reader = { .job = job };
    reader.jpeg.err = jpeg_std_error(&reader.errors);
    reader.jpeg.client_data = &reader;
    reader.errors.error_exit = on_error;
    reader.errors.emit_message = on_message;
    reader.errors.output_message = on_output;
    const flatclip_status status = guarded(&reader);
    jpeg_destroy_decompress(&reader.jpeg);
    return status;
}
