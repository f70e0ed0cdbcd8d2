#include "rpc/users.h"

#include "base/check.h"
#include "base/mem.h"

struct user *users_join(struct list *users, uid_t uid)
{
	struct user *user;

	for (struct list_node *node = users->head.next; node != &users->head; node = node->next) {
		user = container_of(node, struct user, node);
		if (user->uid == uid) {
			user->refs++;
			return user;
		}
	}
	user = mem_zalloc(sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	user->refs = 1;
	list_push_back(users, &user->node);
	return user;
}

void users_leave(struct list *users, struct user *user)
{
	if (--user->refs > 0)
		return;
	CHECK_MSG(user->connections == 0 && user->weight == 0, "%u connections, %u requests",
		  user->connections, user->weight);
	list_remove(users, &user->node);
	mem_free(user);
}
