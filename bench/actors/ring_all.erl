%% erl +S THREADS:THREADS -noshell -run ring_all main ring|all MESSAGES: prints the seconds from the first message to
%% the last. The same benchmarks as src/main.rs: a process for each actor.
-module(ring_all).
-export([main/1]).

main([Kind, MessagesText]) ->
    Messages = list_to_integer(MessagesText),
    {Actors, Tokens} = case Kind of "ring" -> {1000, 100}; "all" -> {100, 1000} end,
    Main = self(),
    Pids = [spawn(fun() -> meet(Kind, Main, Me) end) || Me <- lists:seq(0, Actors - 1)],
    Peers = list_to_tuple(Pids),
    [Pid ! {peers, Peers} || Pid <- Pids],
    Started = erlang:monotonic_time(nanosecond),
    [element(Token * Actors div Tokens + 1, Peers) ! Messages div Tokens || Token <- lists:seq(0, Tokens - 1)],
    [receive ended -> ok end || _ <- lists:seq(1, Tokens)],
    io:format("~p~n", [(erlang:monotonic_time(nanosecond) - Started) / 1.0e9]),
    halt().

meet(Kind, Main, Me) ->
    receive
        {peers, Peers} when Kind =:= "ring" ->
            ring(Main, element((Me + 1) rem tuple_size(Peers) + 1, Peers));
        {peers, Peers} ->
            all(Main, Peers, tuple_size(Peers), (Me + 1) * 7919)
    end.

ring(Main, Next) ->
    receive
        0 -> Main ! ended;
        Hops -> Next ! Hops - 1
    end,
    ring(Main, Next).

%% A linear congruential generator in 30 bits: small integers, so that nothing is allocated for it.
all(Main, Peers, Count, Random) ->
    receive
        0 ->
            Main ! ended,
            all(Main, Peers, Count, Random);
        Hops ->
            Next = (Random * 1103515245 + 12345) band 16#3fffffff,
            element((Next bsr 8) rem Count + 1, Peers) ! Hops - 1,
            all(Main, Peers, Count, Next)
    end.
