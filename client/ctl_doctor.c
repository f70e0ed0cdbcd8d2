/* segarctl doctor: what the daemon has found, and how to mend it. */
#include <string.h>

#include "client/ctl.h"
#include "client/ctl_find.h"
#include "proto/reader.h"

static bool is(struct wire_span text, const char *word)
{
	return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static void show_finding(struct wire_span finding, bool *ret_bad)
{
	struct wire_span grade = ctl_text(finding, "grade"), remedy = ctl_text(finding, "remedy");
	*ret_bad |= is(grade, "bad");
	printf("%-4.*s  ", (int)grade.len, grade.data);
	ctl_put_text(stdout, ctl_text(finding, "check"));
	printf(": ");
	ctl_put_text(stdout, ctl_text(finding, "found"));
	if (remedy.len > 0) {
		printf("\n      ");
		ctl_put_text(stdout, remedy);
	}
	printf("\n");
}

enum ctl_exit ctl_doctor(struct ctl *ctl)
{
	segar_reply *reply = segar_call(ctl->c, "doctor", NULL, 0, 0, &ctl->options);
	enum ctl_exit exit_code = ctl_exit_of(reply->status);
	struct wire_span encoded = ctl_encoded(reply), item;
	struct reader r;
	uint32_t count = 0;
	bool bad = false;
	reader_init(&r, encoded.data, encoded.len);
	if (reply->status != SEGAR_OK) {
		ctl_print_error(stdout, ctl, reply->status, reply->error, reply->retry_after_ms);
	} else if (ctl->json) {
		ctl_print_json(stdout, encoded);
	} else if (reader_array(&r, &count)) {
		while (count-- > 0 && reader_skip(&r, &item))
			show_finding(item, &bad);
	}
	segar_reply_free(reply);
	return bad ? CTL_ERROR : exit_code;
}
